// Package serverless is the operator: it installs the Function controller that a Serverless requests, repairs it, and
// removes it with the Serverless.
//
// It guarantees that
//   - one Serverless of the cluster is served, the oldest, and the status of each other one names it;
//   - nothing is installed from invalid values: the status names the field, and the previous settings stay in effect;
//   - Installed is True only while the current version of the Deployment runs;
//   - changed or deleted parts are repaired as soon as a watch reports it;
//   - objects of other owners stay unchanged, and so does the CRD of Functions: while there is a Function its controller
//     stays.
//
// It holds none of the rights that it grants: the chart creates the roles, and the operator may only bind these.
package serverless
