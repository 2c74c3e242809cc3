// Package bridge asks the admin API of eventbridges: for dead letters, Subscriptions, and what happened to events.
//
// It owns that API as its clients see it. It guarantees that its errors have an exit code and never the token, and that
// what a redrive or purge did is reported also when it did not come to its end.
package bridge
