// Package serverless is the operator: it brings the Function controller that a Serverless asks for, keeps it as it should be, and takes
// it away with the Serverless.
//
// It guarantees that
//   - one Serverless of the cluster has an effect, the oldest, and each other one says which;
//   - nothing is installed from values that make no sense: the status names the field, and what was in force stays;
//   - Installed is True only while the Deployment runs as it is written now;
//   - what somebody changes or deletes of the parts is repaired as soon as a watch reports it;
//   - objects of others are left as they are, and so is the CRD of Functions: while there is a Function its controller stays.
//
// It holds no right that it gives: the chart makes the roles, and the operator may bind these alone.
package serverless
