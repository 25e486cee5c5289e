"""What engines that commit writes in groups have in common: a write from its submission to its
completion, the completions of callers, how many writes may wait, and what a conditional one does to
the stored item.

Rule: nothing here waits for a database, or knows how one stores items. An engine decides which
writes share a commit, and what becomes of them when it fails.
"""
