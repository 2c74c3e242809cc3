// Package skew decides whether a command line and a cluster of different releases are compatible, and otherwise which
// of them has to be upgraded or downgraded to which version.
//
// It compares capabilities rather than versions: the admin API counts its additions (Level) and reports the oldest
// level of clients that it serves (Oldest), and resources have their API versions. Versions are only for the message.
//
// It guarantees that compatible sides are never rejected, and that a client without a level, such as curl, is accepted.
package skew
