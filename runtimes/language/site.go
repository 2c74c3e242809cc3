package language

// Site is where dependencies are installed: its name, and what its user does about what is missing there.
type Site struct {
	Name        string
	Credentials string
	Compiler    string
	Trust       string
	Manager     string
	Memory      string
	Space       string
	Later       string
}
