// Package executable writes programs that a test runs at once.
//
// A process that another test starts while the file is open for writing has it open too until it runs its own
// program, and until then the kernel refuses to run the file: "text file busy". What is written through this
// package is open in no other process (https://go.dev/issue/22315).
package executable
