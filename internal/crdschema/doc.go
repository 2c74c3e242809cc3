// Package crdschema applies a CRD to custom resources as an API server does, but without one: it sets defaults, removes
// unknown fields, and evaluates the rules of schema and CEL.
//
// It guarantees the errors of a real API server, because it uses the same code.
package crdschema
