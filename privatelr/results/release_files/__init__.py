"""The file of a fit: what it holds, how it is written, read and checked."""
