"""Of DP-ICL: what is planned and charged, how rows vote on queries, and how votes become one
answer.
"""
