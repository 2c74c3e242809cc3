// Package crdschema owns what an API server makes of a custom resource by its CRD: defaults, unknown fields, and the rules of schema and
// CEL, judged without an API server.
//
// It guarantees the words of a real one, because it uses the same code.
package crdschema
