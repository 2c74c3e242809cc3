// Package conversion owns what a Function of v1alpha1 is in v1alpha2, and the other way round.
//
// It guarantees that
//   - nothing is lost on the way there and back, in either direction: what the other version has no field for is kept, in the annotations
//     that api/serverless/v1alpha1 names, and of the status in the status;
//   - what was kept is used only as long as it still stands for what the fields say, so that who changes a field has that change;
//   - each change of meaning, and all that cannot be written, is named with its field and what to do;
//   - to v1alpha1 every Function can be converted, whatever it says: no list of Functions fails by one of them.
//
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
