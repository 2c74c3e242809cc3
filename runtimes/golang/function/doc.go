// Package function runs a Function that is written in Go, and is what its handler imports: the event that it gets, how it
// publishes others, and Serve, which the main function that every build writes calls with the handler.
//
// It stands on the standard library alone, so that a Function's image holds one small binary and a cold start loads
// nothing else. It guarantees that
//   - the port opens when the packages of the Function are initialised, and never before;
//   - a call ends after the Function's timeout for whoever has sent it, whatever the handler does;
//   - the first SIGTERM or SIGINT lets calls finish, and the second does not;
//   - every body, queue and number of hanging calls is bounded.
package function
