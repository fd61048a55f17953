#!/usr/bin/python3
"""Compares word vectors of rowgrad and fastText on the Brown corpus. Called by word_vectors.sh.

Trains skip-gram with the same settings in turns, once for each seed. (fastText has no option for
the seed, but its threads race.) The rate counts the words of all epochs in the wall time of the
whole command, including reading the text and writing the vectors. Two measures of quality:

  part of speech   share of the ten nearest words, by cosine, that have the same part of speech
  category         share of passages whose category a linear classifier finds by their mean vector
"""

import argparse
import collections
import re
import statistics
import subprocess
import tarfile
import time

import numpy

WIDTH, WINDOW, NEGATIVES, SHARED, RATE, SUBSAMPLE, MIN_COUNT = 100, 5, 5, 64, 0.05, 1e-4, 5
NEIGHBORS, FREQUENT, QUERIES, PASSAGE = 10, 20, 6000, 200


def read_corpus(archive):
    """Returns the sentences of each document, as (word, part of speech), and its category."""
    with tarfile.open(archive) as package:
        text = {member.name.rpartition("/")[2]: package.extractfile(member).read().decode()
                for member in package if member.isfile()}
    documents = []
    for line in text["cats.txt"].splitlines():
        name, category = line.split()
        sentences = []
        for sentence in text[name].splitlines():
            pairs = [item.rpartition("/") for item in sentence.split()]
            sentences.append([(word.lower(), re.split(r"[-+*$]", tag)[0])
                              for word, _, tag in pairs if word])
        documents.append((category, [sentence for sentence in sentences if sentence]))
    return documents


def read_vectors(path):
    with open(path, encoding="utf-8") as lines:
        next(lines)  # the numbers of words and columns
        rows = [line.rstrip().split(" ") for line in lines]
    vectors = numpy.array([row[1:] for row in rows], dtype=numpy.float32)
    vectors /= numpy.linalg.norm(vectors, axis=1, keepdims=True) + 1e-9
    return {row[0]: vector for row, vector in zip(rows, vectors)}


def same_part_of_speech(vectors, documents):
    tags = collections.defaultdict(collections.Counter)
    for _, sentences in documents:
        for sentence in sentences:
            for word, tag in sentence:
                tags[word][tag] += 1
    words = sorted((word for word in vectors if word in tags), key=lambda word: -tags[word].total())
    matrix = numpy.array([vectors[word] for word in words])
    names = numpy.array([tags[word].most_common(1)[0][0] for word in words])
    queries = [i for i, word in enumerate(words) if tags[word].total() >= FREQUENT][:QUERIES]
    cosines = matrix[queries] @ matrix.T
    cosines[numpy.arange(len(queries)), queries] = -2  # a word is not its own neighbor
    nearest = numpy.argpartition(-cosines, NEIGHBORS, axis=1)[:, :NEIGHBORS]
    return float((names[nearest] == names[queries][:, None]).mean())


def category_accuracy(vectors, documents):
    means, labels, is_test = [], [], []
    seen = collections.Counter()
    categories = sorted({category for category, _ in documents})
    for category, sentences in documents:
        seen[category] += 1
        words = [word for sentence in sentences for word, _ in sentence]
        for first in range(0, len(words) - PASSAGE // 4, PASSAGE):
            known = [vectors[word] for word in words[first:first + PASSAGE] if word in vectors]
            means.append(numpy.mean(known, axis=0))
            labels.append(categories.index(category))
            is_test.append(seen[category] % 5 == 1)  # a fifth of the documents
    x, labels, is_test = numpy.array(means), numpy.array(labels), numpy.array(is_test)
    train = x[~is_test]
    x = numpy.hstack([(x - train.mean(0)) / train.std(0), numpy.ones((len(x), 1))])
    train = x[~is_test]
    one_hot = numpy.eye(len(categories))[labels[~is_test]]
    weights = numpy.linalg.solve(train.T @ train + numpy.eye(x.shape[1]), train.T @ one_hot)
    return float(((x[is_test] @ weights).argmax(1) == labels[is_test]).mean())


def commands(arguments):
    """Returns, for each method, a function of the seed that returns its command."""
    fasttext = [arguments.fasttext, "skipgram", "-input", "brown.txt", "-output", "fasttext-vectors",
                "-dim", WIDTH, "-ws", WINDOW, "-neg", NEGATIVES, "-lr", RATE, "-t", SUBSAMPLE,
                "-minCount", MIN_COUNT, "-minn", 0, "-maxn", 0, "-epoch", arguments.epochs,
                "-thread", arguments.threads, "-verbose", 0]
    rowgrad = [arguments.program, "train", "--model", "skip-gram", "--corpus", "brown.txt",
               "--tokenizer", "whitespace", "--lines", "--validation", 0, "--width", WIDTH,
               "--window", WINDOW, "--negatives", NEGATIVES, "--learning-rate", RATE,
               "--schedule", "linear", "--subsample", SUBSAMPLE, "--min-count", MIN_COUNT,
               "--epochs", arguments.epochs, "--threads", arguments.threads,
               "--vectors", "rowgrad-vectors.vec", "--force"]
    return {"fastText": ("fasttext-vectors.vec", lambda seed: fasttext),
            "rowgrad": ("rowgrad-vectors.vec", lambda seed: rowgrad + ["--seed", seed]),
            f"rowgrad, {SHARED} shared negatives": (
                "rowgrad-vectors.vec",
                lambda seed: rowgrad + ["--seed", seed, "--shared-negatives", SHARED])}


def mean_and_error(values, digits):
    mean = f"{statistics.mean(values):.{digits}f}"
    if len(values) < 2:
        return mean
    return f"{mean} ± {statistics.stdev(values) / len(values) ** 0.5:.{digits}f}"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--archive", required=True)
    parser.add_argument("--fasttext", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()

    documents = read_corpus(arguments.archive)
    with open("brown.txt", "w", encoding="utf-8") as text:
        for _, sentences in documents:
            text.writelines(" ".join(word for word, _ in sentence) + "\n" for sentence in sentences)
    words = sum(len(sentence) for _, sentences in documents for sentence in sentences)
    methods = commands(arguments)
    results = {name: [] for name in methods}
    for seed in range(1, arguments.seeds + 1):
        for name, (vectors, command) in methods.items():
            start = time.monotonic()
            subprocess.run([str(word) for word in command(seed)], check=True,
                           stdout=subprocess.DEVNULL)
            rate = words * arguments.epochs / (time.monotonic() - start) / 1000
            vectors = read_vectors(vectors)
            results[name].append((rate, same_part_of_speech(vectors, documents),
                                  category_accuracy(vectors, documents)))
            print(f"seed {seed}, {name}: {rate:.0f} thousand words/s", flush=True)
    print(f"\n{words} words, {arguments.epochs} epochs, {arguments.threads} threads, "
          f"{arguments.seeds} seeds (mean ± standard error)\n")
    print("| | thousand words/s | part of speech | category |\n|---|---|---|---|")
    for name, rows in results.items():
        rates, speech, category = zip(*rows)
        print(f"| {name} | {mean_and_error(rates, 0)} | {mean_and_error(speech, 4)} | "
              f"{mean_and_error(category, 4)} |")


if __name__ == "__main__":
    main()
