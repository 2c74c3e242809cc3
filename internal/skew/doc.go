// Package skew decides whether a command line and a cluster of different releases understand each other, and if they do not, which
// of them has to be exchanged for which version.
//
// It decides by what each side can do and not by comparing versions: the admin API counts its additions (Level) and reports the oldest
// level of clients that it serves (Oldest), and resources have their API versions. Versions are for the message alone.
//
// It guarantees that sides which fit are never refused, and that a client without a level, such as curl, is accepted.
package skew
