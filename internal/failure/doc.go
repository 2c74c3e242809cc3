// Package failure names why an attempt to deliver an event failed, and why an event became a dead letter.
//
// A Reason is a code for programs: a label of metrics, a header and an extension of dead letters, a filter. It never
// changes. Its message is a sentence for people. Dead letters that were stored when the sentence was used in
// place of the code are understood too. The package is pure.
package failure
