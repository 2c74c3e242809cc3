package convert

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/rouse-run/rouse/api/serverless/v1alpha1"
	"github.com/rouse-run/rouse/internal/conversion"
)

const (
	kindFunction      = "Function"
	kindGitRepository = "GitRepository"

	// maxObject is how long an object may be: longer ones are in no cluster.
	maxObject = 3 << 20
)

// File is one that was read.
type File struct {
	Name    string
	Content []byte
}

// Result is what became of the files.
type Result struct {
	// Content are their documents, without the Functions that cannot be converted and without GitRepositories.
	Content []byte
	// Problems are lines about what cannot be converted, Notes about what changes its meaning.
	Problems, Notes []string

	Converted, Failed, Repositories, Unchanged int
}

// converter converts one input.
type converter struct {
	Result

	repositories conversion.Repositories
	used         map[types.NamespacedName]bool
}

// located is a document with the name of its file.
type located struct {
	Document

	file string
}

func (l located) name() string { return l.file + ": " + l.Object.FullName() + ": " }

func (l located) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.Object.Metadata.Namespace, Name: l.Object.Metadata.Name}
}

// Functions converts those of v1alpha1. An error says that a file cannot be read as manifests.
func Functions(ctx context.Context, files []File) (Result, error) {
	var documents []located
	for _, file := range files {
		found, err := Documents(file.Name, file.Content, isOld)
		if err != nil {
			return Result{}, err
		}
		for _, document := range found {
			documents = append(documents, located{document, file.Name})
		}
	}
	c := &converter{repositories: conversion.Repositories{}, used: map[types.NamespacedName]bool{}}
	for _, document := range documents {
		if isOld(document.Object) && document.Object.Kind == kindGitRepository {
			c.addRepository(document)
		}
	}
	for _, document := range documents {
		if err := c.add(ctx, document); err != nil {
			return Result{}, err
		}
	}
	c.noteUnused(documents)
	return c.Result, nil
}

// isOld reports whether the object is of the version that has to be converted.
func isOld(o *Object) bool {
	return o.APIVersion == v1alpha1.GroupVersion.String() && (o.Kind == kindFunction || o.Kind == kindGitRepository)
}

func (c *converter) addRepository(document located) {
	c.Repositories++
	repository := &v1alpha1.GitRepository{}
	_, twice := c.repositories[document.key()]
	switch err := decode(document, repository); {
	case err != nil:
		c.problem(document, err.Error())
	case twice:
		c.problem(document, "it is there twice: take one of them away")
	case repository.Spec.URL == "":
		c.problem(document, "spec.url: it is empty: write the address of the repository")
	default:
		c.repositories[document.key()] = repository.Spec
	}
}

func (c *converter) problem(document located, text string) {
	c.Problems = append(c.Problems, document.name()+text)
}

func (c *converter) add(ctx context.Context, document located) error {
	switch {
	case !isOld(document.Object):
		c.Unchanged += document.Objects
		c.Content = Append(c.Content, document.Text)
		return nil
	case document.Object.Kind == kindGitRepository:
		return nil
	}
	old := &v1alpha1.Function{}
	if err := decode(document, old); err != nil {
		c.Failed++
		c.problem(document, err.Error())
		return nil
	}
	if name, needed := conversion.RepositoryOf(old); needed {
		c.used[name] = true
	}
	made, report := conversion.Up(old, c.repositories)
	problems := texts(report.Problems)
	var written []byte
	if len(problems) == 0 {
		conversion.Forget(made)
		var err error
		if written, problems, err = write(ctx, made); err != nil {
			return err
		}
	}
	for _, problem := range problems {
		c.problem(document, problem)
	}
	if len(problems) > 0 {
		c.Failed++
		return nil
	}
	if unknown := yaml.UnmarshalStrict(document.Text, &v1alpha1.Function{}); unknown != nil {
		report.Changed = append(report.Changed, conversion.Finding{
			Field: "unknown fields", Why: strings.TrimPrefix(unknown.Error(), "error unmarshaling JSON: while decoding JSON: "),
			Remedy: "they are left out; check their spelling",
		})
	}
	for _, note := range texts(report.Changed) {
		c.Notes = append(c.Notes, document.name()+note)
	}
	c.Converted++
	c.Content = Append(c.Content, written)
	return nil
}

// noteUnused says which GitRepositories are left out without being in any Function.
func (c *converter) noteUnused(documents []located) {
	for _, document := range documents {
		if isOld(document.Object) && document.Object.Kind == kindGitRepository && !c.used[document.key()] {
			c.Notes = append(c.Notes, document.name()+"no Function of the input names it: it is left out, and nothing in v1alpha2 takes its place")
		}
	}
}

func decode(document located, into any) error {
	if len(document.Text) > maxObject {
		return fmt.Errorf("%d bytes are more than the %d of the largest object", len(document.Text), maxObject)
	}
	if err := yaml.Unmarshal(document.Text, into); err != nil {
		return fmt.Errorf("it cannot be decoded: %s", strings.TrimPrefix(err.Error(), "error unmarshaling JSON: while decoding JSON: "))
	}
	return nil
}

func texts(findings []conversion.Finding) []string {
	lines := make([]string, len(findings))
	for i, finding := range findings {
		lines[i] = finding.String()
	}
	return lines
}
