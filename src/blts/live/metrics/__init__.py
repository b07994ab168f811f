"""Metrics besides the reward: what they are and how arms compare (`definition`, `guardrails`), their values in the ledger
(`measuring`), rewards that are a sum of several (`objective`), and when an experiment has its answer (`stopping`)."""
