package scaffold

// File is one file of a new Function.
type File struct {
	// Name is relative to the Function's folder, with slashes.
	Name    string
	Content []byte
}

// Files lists the files of a new Function, sorted by name. It is pure: nothing is written.
func Files(f Function) ([]File, error) {
	if err := f.Validate(); err != nil {
		return nil, err
	}
	return nil, nil
}
