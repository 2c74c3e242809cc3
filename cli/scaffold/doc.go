// Package scaffold owns `rouse init`: the files of a new Function.
//
// It guarantees that
//   - local mode and `kubectl apply -k` accept what it writes as it is: the handler is a file of its own,
//     which kustomize puts into the Function;
//   - the test that it writes passes, and runs with nothing but Node.js, Python or Go;
//   - an API server accepts it, and the controller finds nothing wrong in it;
//   - it never overwrites a file, and writes nothing when anything is wrong.
package scaffold
