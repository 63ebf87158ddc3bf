"""One API, run alone: what a dump records of a call, values for its arguments, the call itself on two sides, figures.

The files of this room import the standard library, numpy, late a framework, and each other: a script that runs an
operator again consists of their text.
"""
