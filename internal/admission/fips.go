package admission

import (
	"fmt"
	"net/url"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/rouse-run/rouse/api/serverless/v1alpha2"
	"github.com/rouse-run/rouse/runtimes/languages"
)

// FIPS collects what of a Function an installation in a FIPS 140-3 mode refuses besides: what Kyma does.
func FIPS(fn *v1alpha2.Function) Problems {
	spec := field.NewPath("spec")
	return append(checkRuntimeFIPS(spec.Child("runtime"), fn), checkRepositoryFIPS(spec.Child("source", "gitRepository", "url"), fn)...)
}

func checkRuntimeFIPS(path *field.Path, fn *v1alpha2.Function) Problems {
	known, err := languages.Of(fn.Spec.Runtime)
	if err != nil || !known.Runtime(string(fn.Spec.Runtime)).NoFIPS {
		return nil // a runtime that there is not is refused as such
	}
	var others []string
	for _, runtime := range known.Runtimes {
		if !runtime.NoFIPS {
			others = append(others, runtime.Name)
		}
	}
	return Problems{problemAt(path, fmt.Sprintf("spec.runtime: %s is refused in FIPS mode, since there is no base image with a validated module for it. "+
		"Use %s", fn.Spec.Runtime, strings.Join(others, " or ")))}
}

// checkRepositoryFIPS takes what is read over HTTP and nothing else: SSH has URLs of many forms, and all others are not read anyway.
func checkRepositoryFIPS(path *field.Path, fn *v1alpha2.Function) Problems {
	repository := fn.Spec.Source.GitRepository
	if repository == nil || repository.URL == "" {
		return nil
	}
	if read, err := url.Parse(strings.TrimSpace(repository.URL)); err == nil && (read.Scheme == "https" || read.Scheme == "http") {
		return nil
	}
	return Problems{problemAt(path, "source.gitRepository.URL: Git over SSH is refused in FIPS mode, since its algorithms are not those of a validated module. "+
		"Use an https:// URL, with auth.type basic where it needs credentials")}
}
