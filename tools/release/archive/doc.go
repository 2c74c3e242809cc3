// Package archive packs files for people: gzip-compressed tar files that depend on nothing but their content.
package archive
