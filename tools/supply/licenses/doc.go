// Command licenses writes the licence notices of everything that is compiled into binaries, and fails when a licence is unknown
// or not allowed.
//
//	go run -C tools/supply ./licenses -C ../.. -o FILE ./cmd/...
//
// It lists the modules of the binaries by go list, on each platform of a release, and reads the licence and notice files beside
// the packages that are used and above them, up to the root of their module. It guarantees:
//
//   - Each module, and Go's standard library, is in the notices with the whole text of its licence and notice files.
//   - A module without a licence file, with an unknown licence text, or with a licence that is not in the list is an error that
//     names it. Licences that require more than a notice need an exception for their module, with a reason.
//   - The output is reproducible.
package main
