"""Of DP few-shot generation: what is planned and charged, and how rows vote on tokens."""
