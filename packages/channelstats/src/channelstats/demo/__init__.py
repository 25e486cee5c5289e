"""A workspace that nobody works in, to look at and to measure with: a Slack export of any size.

Rule: all of it follows from a size, a last day and a seed; it looks like people, and names none.

    workspace   the whole: `write_export`
    names       names of people, by the culture they come from
    people      who there is: names, zones, habits, friends
    places      channels: names, members, what happens in them
    rhythm      when somebody writes: hours, weekdays, growth, in local time
    plan        who says what kind of thing when, in which thread, as a few numbers each
    sentences   what there is to say
    talk        a planned message as Slack writes it
    files       a zip or a folder, file by file
"""
