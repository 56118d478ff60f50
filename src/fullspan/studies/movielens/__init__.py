"""What happens to embeddings while a matrix factorization learns MovieLens: the article's experiment, and past it."""
