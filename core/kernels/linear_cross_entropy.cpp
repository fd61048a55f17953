#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <vector>

#include <rowgrad/core/kernels/linear_cross_entropy.hpp>
#include <rowgrad/core/kernels/panels.hpp>
#include <rowgrad/core/kernels/softmax.hpp>

namespace rowgrad::kernels {
namespace {

using blas::transposed;

constexpr std::size_t kMaxRows = 256;    // rows whose x stays in the L2 cache
constexpr std::size_t kClassBlock = 96;  // classes whose logits for a panel stay in the L1 cache
constexpr std::size_t kBackwardBlock = 2 * kClassBlock;  // classes that backward processes at once
constexpr std::size_t kMaxChunks = 32;  // chunks of classes that backward distributes over threads

// A block of rows of x. In a panel, the lanes of a vector are rows, and consecutive vectors are
// classes, so that maxima and sums over classes do not shuffle lanes.
//
// Each block of classes is shifted by its own maximum instead of the maximum of the row. So each
// exponential is computed once, while its logit is in the cache. The softmax is exp(logit − maximum
// of the block) · exp(maximum of the block − maximum of the row) / Σ.
class RowBlock {
 public:
  RowBlock(const LinearCrossEntropy& head, std::size_t rows)
      : head_(head),
        blocks_((head.classes + kClassBlock - 1) / kClassBlock),
        logits_(empty({panel_count(rows), head.classes, kPanel})),
        maxima_(empty({panel_count(rows), blocks_, kPanel})),
        sums_(empty(maxima_.shape())),
        target_logits_(rows),
        bias_errors_(zeros({head.bias == nullptr ? 0 : head.classes})) {}

  // Returns the sum of the losses of `rows` rows, starting at row `first`.
  double losses(std::size_t first, std::size_t rows) {
    first_ = first;
    rows_ = rows;
    panels_ = panel_count(rows);
    x_ = head_.x + first * head_.width;
    targets_ = head_.targets + first;
    weights_ = head_.row_weights == nullptr ? nullptr : head_.row_weights + first;
    x_columns_ = to_panels(transposed({x_, rows, head_.width}));
    const std::size_t work = kClassBlock * panels_ * head_.width;  // products of kPanel lanes
    parallel_for_each(blocks_, work, [this](std::size_t block) {
      const std::size_t first_class = block * kClassBlock;
      const std::size_t count = std::min(kClassBlock, head_.classes - first_class);
      multiply(first_class, count);
      exponentiate(block, first_class, count);
    });
    return sum_up_losses();
  }

  // Computes the gradients for these rows. The first block of rows overwrites the gradients of bias
  // and weight; later blocks add to these gradients.
  void backward(const HeadGradients& gradients) {
    const std::size_t width = head_.width;
    Tensor x;
    if (gradients.weight != nullptr) {
      Tensor filled = zeros({panels_ * kPanel, width});  // padded to whole panels
      std::copy_n(x_, rows_ * width, filled.data());
      x = to_panels({filled.data(), panels_ * kPanel, width});
    }
    // The gradient of x is a sum over all classes. Each chunk of classes has its own partial sum,
    // so the bits do not depend on which thread processes which chunk.
    const std::size_t blocks = (head_.classes + kBackwardBlock - 1) / kBackwardBlock;
    const std::size_t chunks = std::min(blocks, kMaxChunks);
    Tensor parts = empty({gradients.x != nullptr ? chunks : 0, panels_, width, kPanel});
    Tensor of_logits = empty({chunks, panels_, kBackwardBlock, kPanel});
    const std::size_t work = blocks / chunks * kBackwardBlock * panels_ * width;
    const std::size_t copy = copies_weight() ? kBackwardBlock * (width + kLanes) : 0;
    Tensor copies = empty({range_count(chunks, row_grain(work)), copy});
    parallel_for(
        chunks, row_grain(work), [&](std::size_t begin, std::size_t end, std::size_t range) {
          for (std::size_t chunk = begin; chunk < end; ++chunk) {
            const std::size_t first = blocks * chunk / chunks;
            for (std::size_t block = first; block < blocks * (chunk + 1) / chunks; ++block) {
              const Classes classes{
                  block * kBackwardBlock,
                  std::min(kBackwardBlock, head_.classes - block * kBackwardBlock),
                  of_logits.data() + chunk * panels_ * kBackwardBlock * kPanel};
              differentiate(classes, gradients.scale);
              if (gradients.bias != nullptr) add_bias_gradient(classes, gradients.bias);
              if (gradients.weight != nullptr) add_weight_gradient(classes, x, gradients.weight);
              if (gradients.x != nullptr)
                add_x_gradient(classes, copies.data() + range * copy,
                               parts.data() + chunk * panels_ * width * kPanel, block > first);
            }
          }
        });
    if (gradients.x != nullptr) store_x_gradient(std::move(parts), gradients.x);
  }

 private:
  real* logits(std::size_t panel, std::size_t of_class) {
    return logits_.data() + (panel * head_.classes + of_class) * kPanel;
  }
  real* of_block(Tensor& values, std::size_t panel, std::size_t block) {
    return values.data() + (panel * blocks_ + block) * kPanel;
  }
  real weight_of(std::size_t row) const { return weights_ == nullptr ? real{1} : weights_[row]; }

  // Calls body(row, class) for each row whose target is one of `count` classes, starting at
  // `first`.
  void for_each_target(std::size_t first, std::size_t count, const auto& body) const {
    for (std::size_t row = 0; row < rows_; ++row) {
      const auto target = static_cast<std::size_t>(targets_[row]);
      if (target - first < count) body(row, target);
    }
  }

  void multiply(std::size_t first, std::size_t count) {
    const std::size_t width = head_.width;
    // Prefetches the next block's rows of the weight during the first products of this block.
    const std::size_t ahead_panels = std::min<std::size_t>(panels_, 2);
    const real* next = head_.weight + (first + kClassBlock) * width;
    for (std::size_t panel = 0; panel < panels_; ++panel) {
      Prefetch prefetch;
      if (panel < ahead_panels && first + kClassBlock < head_.classes)
        prefetch = {next + panel * kClassBlock / ahead_panels * width, kTileRows / ahead_panels};
      multiply_panel({head_.weight + first * width, count, width},
                     x_columns_.data() + panel * width * kPanel, {logits(panel, first)}, prefetch);
    }
  }

  void exponentiate(std::size_t block, std::size_t first, std::size_t count) {
    constexpr real kMin = -std::numeric_limits<real>::infinity();
    for (std::size_t panel = 0; panel < panels_; ++panel) {
      real* begin = logits(panel, first);
      for (std::size_t lane = 0; lane < kPanel; lane += kLanes) {
        Simd most(kMin);
        for (std::size_t i = 0; i < count; ++i) {
          real* at = begin + i * kPanel + lane;
          Simd logit = Simd::load_aligned(at);
          if (head_.bias != nullptr) {
            logit += Simd(head_.bias[first + i]);
            logit.store_aligned(at);
          }
          most = max(most, logit);
        }
        most.store_aligned(of_block(maxima_, panel, block) + lane);
      }
    }
    for_each_target(first, count, [&](std::size_t row, std::size_t target) {
      target_logits_[row] = logits(row / kPanel, target)[row % kPanel];
    });
    for (std::size_t panel = 0; panel < panels_; ++panel) {
      real* begin = logits(panel, first);
      for (std::size_t lane = 0; lane < kPanel; lane += kLanes) {
        const Simd most = Simd::load_aligned(of_block(maxima_, panel, block) + lane);
        const Simd shift = select(most == Simd(kMin), Simd(real{0}), most);  // avoids ∞ − ∞
        Simd sum(real{0});
        for (std::size_t i = 0; i < count; ++i) {
          real* at = begin + i * kPanel + lane;
          const Simd exponential = exp(Simd::load_aligned(at) - shift);
          exponential.store_aligned(at);
          sum += exponential;
        }
        sum.store_aligned(of_block(sums_, panel, block) + lane);
      }
    }
  }

  double sum_up_losses() {
    double loss = 0;
    for (std::size_t panel = 0; panel < panels_; ++panel) {
      alignas(64) std::array<real, kPanel> most;
      most.fill(-std::numeric_limits<real>::infinity());
      for (std::size_t block = 0; block < blocks_; ++block)
        map_span(
            kPanel, most.data(), [](const Simd& a, const Simd& b) { return max(a, b); },
            most.data(), of_block(maxima_, panel, block));
      std::array<double, kPanel> total{};
      for (std::size_t block = 0; block < blocks_; ++block) {
        real* shift = of_block(maxima_, panel, block);
        const real* sums = of_block(sums_, panel, block);
        map_span(
            kPanel, shift, [](const Simd& x, const Simd& m) { return exp(x - m); }, shift,
            most.data());
        for (std::size_t lane = 0; lane < kPanel; ++lane)
          total[lane] += static_cast<double>(sums[lane]) * shift[lane];
      }
      alignas(64) std::array<real, kPanel> inverse;
      for (std::size_t lane = 0; lane < kPanel; ++lane) {
        const std::size_t row = panel * kPanel + lane;
        inverse[lane] = row < rows_ ? static_cast<real>(weight_of(row) / total[lane]) : real{0};
        if (row < rows_)
          loss += weight_of(row) * ExpSum{most[lane], total[lane]}.above(target_logits_[row]);
      }
      for (std::size_t block = 0; block < blocks_; ++block)
        map_span(
            kPanel, of_block(maxima_, panel, block),
            [](const Simd& x, const Simd& factor) {
              const Simd zero(real{0});  // avoids ∞ · 0
              return select(factor == zero, zero, x * factor);
            },
            of_block(maxima_, panel, block), inverse.data());
    }
    return loss;
  }

  // The classes that backward() processes at once, and the gradient of their logits: [panel,
  // kBackwardBlock, kPanel].
  struct Classes {
    std::size_t first;
    std::size_t count;
    real* gradient;
  };

  // Computes the gradient of the logits: scale · factor · (softmax − one-hot of the target), and 0
  // after the last row.
  void differentiate(const Classes& classes, real scale) {
    const auto gradient = [&](std::size_t panel, std::size_t of_class) {
      return classes.gradient + (panel * kBackwardBlock + of_class - classes.first) * kPanel;
    };
    const std::size_t end = classes.first + classes.count;
    for (std::size_t panel = 0; panel < panels_; ++panel)
      for (std::size_t first = classes.first; first < end; first += kClassBlock) {
        const real* factors = of_block(maxima_, panel, first / kClassBlock);
        const real* from = logits(panel, first);
        real* to = gradient(panel, first);
        const std::size_t count = std::min(kClassBlock, end - first);
        for (std::size_t lane = 0; lane < kPanel; lane += kLanes) {
          const Simd factor = Simd::load_aligned(factors + lane) * Simd(scale);
          for (std::size_t at = lane; at < count * kPanel; at += kPanel) {
            const Simd product = Simd::load_aligned(from + at) * factor;
            select(factor == Simd(real{0}), Simd(real{0}), product).store_aligned(to + at);
          }
        }
      }
    for_each_target(classes.first, classes.count, [&](std::size_t row, std::size_t target) {
      gradient(row / kPanel, target)[row % kPanel] -= scale * weight_of(row);
    });
  }

  void add_bias_gradient(const Classes& classes, real* gradient) {
    for (std::size_t i = 0; i < classes.count; ++i) {
      Simd sum(real{0});
      for (std::size_t panel = 0; panel < panels_; ++panel)
        for (std::size_t lane = 0; lane < kPanel; lane += kLanes)
          sum +=
              Simd::load_aligned(classes.gradient + (panel * kBackwardBlock + i) * kPanel + lane);
      // Kahan 1965: the rounding error of each addition is added with the next block.
      real& to = gradient[classes.first + i];
      real& error = bias_errors_.data()[classes.first + i];
      const real before = first_ > 0 ? to : real{0};
      const real added = lanes::sum(sum) + error;
      to = before + added;
      error = added - (to - before);
    }
  }

  void add_weight_gradient(const Classes& classes, const Tensor& x, real* gradient) const {
    const std::size_t width = head_.width;
    for (std::size_t column = 0; column < width; column += kPanel)
      multiply_panel({classes.gradient, classes.count, panels_ * kPanel, kPanel},
                     x.data() + column * panels_ * kPanel,
                     {.data = gradient + classes.first * width + column,
                      .stride = width,
                      .columns = std::min(kPanel, width - column),
                      .add = first_ > 0},
                     {}, kBackwardBlock * kPanel);
  }

  // Computes the transpose of the gradient of x, in panels of rows. If many panels read the
  // weights, first copies the weights to `copy`, because with a power-of-two stride they would
  // evict each other from the L1 cache.
  void add_x_gradient(const Classes& classes, real* copy, real* columns, bool add) const {
    const std::size_t width = head_.width;
    blas::MatrixView weight{head_.weight + classes.first * width, classes.count, width};
    if (copies_weight()) {
      const std::size_t stride = width + kLanes;
      for (std::size_t i = 0; i < classes.count; ++i)
        std::copy_n(weight.data + i * width, width, copy + i * stride);
      weight = {copy, classes.count, width, stride};
    }
    for (std::size_t panel = 0; panel < panels_; ++panel)
      multiply_panel(transposed(weight), classes.gradient + panel * kBackwardBlock * kPanel,
                     {.data = columns + panel * width * kPanel, .add = add});
  }
  bool copies_weight() const { return panels_ >= 4; }

  void store_x_gradient(Tensor parts, real* gradient) const {
    const std::size_t width = head_.width;
    const std::size_t size = panels_ * width * kPanel;
    for (std::size_t part = 1; part < parts.shape()[0]; ++part)
      map_into(size, parts.data(), std::plus<>(), parts.data(), parts.data() + part * size);
    for (std::size_t row = 0; row < rows_; ++row)
      for (std::size_t column = 0; column < width; ++column)
        gradient[(first_ + row) * width + column] =
            parts.data()[(row / kPanel * width + column) * kPanel + row % kPanel];
  }

  LinearCrossEntropy head_;
  std::size_t blocks_;
  std::size_t first_ = 0;
  std::size_t rows_ = 0;
  std::size_t panels_ = 0;
  const real* x_ = nullptr;
  const std::int32_t* targets_ = nullptr;
  const real* weights_ = nullptr;
  Tensor x_columns_;  // xᵀ in panels of rows
  Tensor logits_;     // [panel, class, kPanel]; later their exponentials
  Tensor maxima_;  // [panel, block, kPanel]; later the factors that turn exponentials into softmax
  Tensor sums_;    // [panel, block, kPanel], sums of exponentials
  std::vector<real> target_logits_;
  Tensor bias_errors_;  // rounding errors of the bias gradient
};

}  // namespace

double linear_cross_entropy(const LinearCrossEntropy& head, const HeadGradients& gradients) {
  if (head.rows == 0 || head.classes == 0) return 0;
  const std::size_t panel_bytes = head.classes * kPanel * sizeof(real);
  const std::size_t panels = std::max<std::size_t>(1, kLogitBytes / panel_bytes);
  const std::size_t most = std::min({head.rows, panels * kPanel, kMaxRows});
  const bool wants =
      gradients.x != nullptr || gradients.weight != nullptr || gradients.bias != nullptr;
  RowBlock block(head, most);
  double loss = 0;
  for (std::size_t first = 0; first < head.rows; first += most) {
    loss += block.losses(first, std::min(most, head.rows - first));
    if (wants) block.backward(gradients);
  }
  return loss;
}

}  // namespace rowgrad::kernels
