# What doxygen reads of a file, for sed -E: its lines, with what it wants said in its own way. No line is added or
# removed, so that line numbers stay true.

# In a header, the comment at the top is the file's, and one behind a declaration is about that.
1,/^(#include|namespace)/ s|^//( .*)?$|///\1|
/^#pragma once/ { n; s|^$|/// @file| }
s|^( *[^ /].*;)  +// |\1  ///< |
s|^( *k[A-Z][A-Za-z0-9]*( = [^,]*)?,?)  +// |\1  ///< |
# A namespace that nobody writes.
s/^(inline namespace ROWGRAD_VECTORS \{|}  \/\/ namespace ROWGRAD_VECTORS)$//
# No commands of doxygen and no tags of HTML in comments.
/^ *\/\/\/ ?[^@]/ s|[\\<]|\\&|g

# The README stands beside the reference's folder, and so does what its links lead to.
s|\[([^]]*)\]\(([A-Za-z_/]+\.(md\|cpp)(#[a-z-]*)?)\)|<a href="../\2">\1</a>|g
