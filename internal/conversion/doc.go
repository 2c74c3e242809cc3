// Package conversion converts older versions of Kyma's resources: Functions from v1alpha1 to v1alpha2 and back, and APIRules of versions
// before v2, of which v1beta1 was the last, to v2.
//
// It guarantees for Functions that
//   - nothing is lost on the way there and back, in either direction: fields that the other version does not have are stored in the
//     annotations that api/serverless/v1alpha1 names, and those of the status in the status;
//   - a stored value is used only while it agrees with the fields, so that a change to a field takes effect;
//   - each change of meaning, and each field that cannot be converted, is reported with its name and the remedy;
//   - every Function can be converted to v1alpha1, so that no list of Functions fails because of one of them.
//
// It guarantees for APIRules that
//   - the result opens nothing that the old version kept closed: when one rule of an APIRule cannot be converted, none is, because a
//     later rule could match the requests of the missing one;
//   - all that cannot be converted is reported at once, with its attribute;
//   - the old version's implicit behaviour, such as its CORS headers, is written out.
//
// It is pure.
package conversion
