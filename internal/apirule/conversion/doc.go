// Package conversion reads APIRules of versions before v2, of which Kyma's v1beta1 was the last, and writes them as v2.
//
// It guarantees:
//   - what it writes opens nothing that the old version kept closed: when a rule of an APIRule cannot be written, none is, because a
//     later rule could take the requests of the one that is missing;
//   - everything that cannot be written is named with its attribute, at once;
//   - what the old version did without being asked, such as its CORS headers, is written out.
//
// It is pure.
package conversion
