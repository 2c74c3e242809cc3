// Package function runs a Function written in Go, and is the package that its handler imports: for the event, for
// publishing others, and for Serve, which the generated main function of every build calls with the handler.
//
// It uses only the standard library, so that a Function's image holds one small binary and a cold start loads
// nothing else. It guarantees that
//   - the port opens when the packages of the Function are initialised, and never before;
//   - a call ends for its client after the Function's timeout, whatever the handler does;
//   - the first SIGTERM or SIGINT drains calls, and the second ends them;
//   - every body, queue and number of hanging calls is bounded.
package function
