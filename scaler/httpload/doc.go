// Package httpload decides what calls over HTTP mean to a Function: how many there are, whether any came, and whether the
// Function may sleep.
//
// It guarantees:
//   - each call counts once, whether a gateway, a pod or both report it. A header that a caller forged hides no more than
//     what is counted elsewhere;
//   - a Function with pods may sleep only after it was idle, and its activators were listed, for the whole grace: then every
//     node sends callers to an activator before the last pod goes;
//   - a Function without pods may sleep as soon as nothing waits for it.
//
// It is pure.
package httpload
