package manifest

// Concerns reports whether the problem may be why an object is missing from the Set: it is about the object, or about a
// file whose objects are not known.
func (p Problem) Concerns(kind, namespace, name string) bool {
	return !p.Warning && (p.Object == "" || p.Object == kind+" "+namespace+"/"+name)
}
