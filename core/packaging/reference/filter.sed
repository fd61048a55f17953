# Translates a file for doxygen (sed -E). No line is added or removed, so line numbers stay correct.

# In a header, the first comment describes the file, and a trailing comment describes the declaration before it.
1,/^(#include|namespace)/ s|^//( .*)?$|///\1|
/^#pragma once/ { n; s|^$|/// @file| }
s|^( *[^ /].*;)  +// |\1  ///< |
s|^( *k[A-Z][A-Za-z0-9]*( = [^,]*)?,?)  +// |\1  ///< |
# Hides the namespace detail.
s/^(inline namespace ROWGRAD_VECTORS \{|}  \/\/ namespace ROWGRAD_VECTORS)$//
# Escapes doxygen commands and HTML tags in comments.
/^ *\/\/\/ ?[^@]/ s|[\\<]|\\&|g

# The README is in the parent folder of the reference, with the files that it links to.
s|\[([^]]*)\]\(([A-Za-z_/]+\.(md\|cpp)(#[a-z-]*)?)\)|<a href="../\2">\1</a>|g
