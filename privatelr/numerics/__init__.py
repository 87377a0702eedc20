"""What is computed: losses, folds over rows, minimisers; no privacy and no formula."""
