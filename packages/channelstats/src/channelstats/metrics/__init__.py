"""Metrics: facts → query → table.

Rule: every number on a page, in a report or in a file is asked for here; a metric is declared once,
with its name, its title, what it means and how it is counted.

    quantities  exact numbers, one or as columns, and against those of the period before
    table       a table of values with their kinds
    metric      what a metric is, and what is counted of facts
    query       the way from a choice, metrics and what rows are about to a table
    volume      how much was written, by how many and how unevenly
    registry    every metric and every other column, by its name
    people      who stayed, came, went and came back, also week by week; how far those come who
                join; huddles, the share of bots
"""
