// Package transcript runs the commands in a documentation page as a reader would, and compares their output.
//
// A page is Markdown. The blocks that are marked `sh` are run in order, in one session of bash: variables and the
// working directory persist. A block `output` holds lines that the commands before it must have printed, in this order; others may be
// in between. Words after `sh`, which are not rendered, change how a block is run:
//
//	sh background   it continues while the next blocks run, and ends with the page or with an interrupt
//	sh await        it is run again until it succeeds and prints the output
//	sh fails        it must end with an error
//	sh cluster      any other word is a tag, by which a test chooses
//
// A block `output background` holds the further output of the newest background command. The line `<!-- interrupt -->`
// interrupts it like Ctrl-C.
//
// It guarantees that a page with an unknown word or block is rejected, that the first failing block ends the run and is reported
// with its line, and that no process of the page outlives the run.
package transcript
