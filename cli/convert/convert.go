package convert

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/types"

	"github.com/rouse-run/rouse/internal/conversion"
)

// Result is the outcome of a conversion.
type Result struct {
	// Files are the input files with their objects converted, without those that cannot be converted and without GitRepositories.
	Files []File
	// Problems explain why objects were left out, Notes what changes its meaning or has to be done in addition.
	Problems, Notes []string

	Functions, APIRules Count
	// Repositories are the GitRepositories that were left out, Unchanged all objects that passed as they were.
	Repositories, Unchanged int
}

// Count counts the objects of a kind that needed a conversion.
type Count struct{ Converted, Failed int }

// converter converts one input.
type converter struct {
	Result

	old          func(*Object) bool
	repositories conversion.Repositories
	used         map[types.NamespacedName]bool
}

// located is a document with its file.
type located struct {
	Document

	file int
	name string // of the file
}

// prefix begins each message about the object.
func (l located) prefix() string { return l.name + ": " + l.Object.FullName() + ": " }

func (l located) key() types.NamespacedName {
	return types.NamespacedName{Namespace: l.Object.Metadata.Namespace, Name: l.Object.Metadata.Name}
}

// Manifests converts the objects that old selects. It fails when a file does not contain manifests.
func Manifests(ctx context.Context, files []File, old func(*Object) bool) (Result, error) {
	c := &converter{old: old, repositories: conversion.Repositories{}, used: map[types.NamespacedName]bool{}}
	var documents []located
	for i, file := range files {
		if isWorkspace(file.Content) {
			content, notes, err := expand(file)
			if err != nil {
				return Result{}, fmt.Errorf("%s: %w", file.Name(), err)
			}
			for _, note := range notes {
				c.Notes = append(c.Notes, file.Name()+": "+note)
			}
			file.Content = content
		}
		found, err := Documents(file.Name(), file.Content, old)
		if err != nil {
			return Result{}, err
		}
		for _, document := range found {
			documents = append(documents, located{document, i, file.Name()})
		}
		c.Files = append(c.Files, File{Path: file.Path})
	}
	for _, document := range documents {
		if old(document.Object) && document.Object.Kind == kindGitRepository {
			c.addRepository(document)
		}
	}
	for _, document := range documents {
		if err := c.add(ctx, document); err != nil {
			return Result{}, fmt.Errorf("%s: %s: %w", document.name, document.Where, err)
		}
	}
	c.noteUnused(documents)
	return c.Result, nil
}

// isOld reports whether the object needs a conversion.
func isOld(o *Object) bool { return isOldFunction(o) || isOldAPIRule(o) }

func (c *converter) add(ctx context.Context, document located) error {
	switch {
	case !c.old(document.Object):
		c.noteAnnotation(document)
		c.Unchanged += document.Objects
		c.write(document, document.Text)
		return nil
	case document.Object.Kind == kindGitRepository:
		return nil
	case document.Object.Kind == kindFunction:
		return c.addFunction(ctx, document)
	default:
		return c.addAPIRule(document)
	}
}

// write adds a document to the output of its file.
func (c *converter) write(document located, text []byte) {
	file := &c.Files[document.file]
	file.Content = Append(file.Content, text)
}

func (c *converter) problem(document located, text string) {
	c.Problems = append(c.Problems, document.prefix()+text)
}

func (c *converter) note(document located, text string) {
	c.Notes = append(c.Notes, document.prefix()+text)
}
