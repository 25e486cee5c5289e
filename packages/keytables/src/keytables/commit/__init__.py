"""What engines that commit writes in groups have in common: the rows of items, a write from its
submission to its completion, the completions of callers, how many writes may wait, and what a
conditional one does to the stored item.

Rule: nothing here waits for a database. An engine decides how a key is stored, which writes share a
commit, and what becomes of them when it fails.
"""
