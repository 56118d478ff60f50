"""Does normalizing embeddings speed training, steady it and help: ten practices of an article, tested."""
