"""The certificate that the service gets for itself by ACME (RFC 8555), with HTTP-01 challenges.

renewal     when to order and when to try again: values in, values out
failures    what went wrong, in words
files       the folder `acme` of the data folder, and the certificate that TLS is served with
sharing     the same for the nodes of a cluster, in their store
directory   the ACME client: the library `acme`, which only a process that orders imports
port80      answers challenges, and redirects everything else to https
process     the child process in which both run
"""
