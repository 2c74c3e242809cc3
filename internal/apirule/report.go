package apirule

// ReportPath is where a gateway tells, at the port of its load, what it has loaded. The answer is a Report as JSON.
const ReportPath = "/apirules"

// Report is what a gateway has loaded.
type Report struct {
	// APIRules are all that it knows of, by namespace/name.
	APIRules map[string]Loaded `json:"apiRules"`
}

// Loaded is an APIRule as a gateway serves it.
type Loaded struct {
	// Fingerprint is that of the Exposure.
	Fingerprint string `json:"fingerprint"`
	// Problems are those that only a gateway can see, such as keys of an issuer that cannot be fetched.
	Problems []LoadedProblem `json:"problems,omitempty"`
}

// LoadedProblem is one thing that a gateway found wrong with a rule.
type LoadedProblem struct {
	// Rule is the index of the rule.
	Rule int `json:"rule"`
	// Attribute is the path of the field, such as ".spec.rules[0].jwt".
	Attribute string `json:"attribute"`
	Message   string `json:"message"`
}
