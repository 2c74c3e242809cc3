// Package transcript runs the commands of a page of documentation as its reader would, and compares what they print.
//
// A page is Markdown. The blocks that are marked `sh` are run in order, in one session of bash: variables and the
// working directory stay. A block `output` holds lines that the commands before it must have printed, in this order; others may stand
// between. Words behind `sh`, which no reader sees, change how a block is run:
//
//	sh background   it goes on while the next blocks run, and ends with the page or with an interrupt
//	sh await        it is run again until it succeeds and prints the output
//	sh fails        it must end with an error
//	sh cluster      any other word is a tag, by which a test chooses
//
// A block `output background` holds what the newest background command prints from then on. The line `<!-- interrupt -->`
// does what Ctrl-C does to it.
//
// It guarantees that a page with a word or block that it does not know is refused, that the first block that fails ends the run and is named
// with its line, and that no process of the page outlives the run.
package transcript
