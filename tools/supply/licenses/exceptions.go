package main

// exceptions are modules whose licences were reviewed manually.
func exceptions() map[string]exception {
	const securejoin = "github.com/cyphar/filepath-securejoin"
	return map[string]exception{
		securejoin: {
			licences: []string{"MPL-2.0"},
			packages: []string{securejoin, securejoin + "/internal/consts"},
			reason:   "the files of these packages are under BSD-3-Clause, those of others under MPL-2.0",
		},
		"github.com/opencontainers/go-digest": {
			licences: []string{"CC-BY-SA-4.0"},
			reason:   "the licence of its documentation, which is in no binary",
		},
		"sigs.k8s.io/cli-utils": {
			unrecognized: []string{"LICENSE_TEMPLATE", "LICENSE_TEMPLATE_GO"},
			reason:       "the headers of its source files, which name Apache-2.0",
		},
	}
}
