// Package view displays a running local mode, live in a terminal or as plain lines.
//
// It owns the appearance of Functions, events, logs and problems, and the key bindings. It reads all state from a
// Source and changes only the screen, except that a key makes the Source publish again. All text is sanitized first: no
// output of a Function can control the terminal. The kept state is bounded, and high rates are combined into at most
// twenty frames a second.
package view
