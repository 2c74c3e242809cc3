// Package conversion owns what a Function of v1alpha1 is in v1alpha2, and the other way round.
//
// It guarantees that
//   - nothing is lost on the way there and back, in either direction: what the other version has no field for is kept, in the annotations
//     that api/serverless/v1alpha1 names, and of the status in the status;
//   - what was kept is used only as long as it still stands for what the fields say, so that who changes a field has that change;
//   - each change of meaning, and all that cannot be written, is named with its field and what to do;
//   - to v1alpha1 every Function can be converted, whatever it says: no list of Functions fails by one of them.
package conversion
