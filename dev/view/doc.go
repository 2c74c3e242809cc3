// Package view shows a running local mode to a person, live in a terminal or as plain lines.
//
// It owns how Functions, events, logs and problems look, and which keys do what. It reads all of it from a
// Source and changes nothing but the screen, except that a key asks the Source to publish again. What it
// shows is made harmless first: nothing that a Function writes can control the terminal. What it keeps is
// bounded, and high rates are gathered into at most twenty pictures a second.
package view
