// Package scaffold owns `rouse init`: the files of a new Function.
//
// It guarantees that
//   - local mode and `kubectl apply -k` accept its output unchanged: the handler is a file of its own,
//     which kustomize puts into the Function;
//   - the generated test passes, and requires only Node.js, Python or Go;
//   - an API server accepts it, and the controller reports no problems;
//   - it never overwrites a file, and writes nothing in case of an error.
package scaffold
