"""Real tables from published packages, and how the default fit and its peers do on them."""
