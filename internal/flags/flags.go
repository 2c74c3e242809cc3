package flags

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
)

// Options are settings that declare their flags.
type Options interface {
	// Flags declares every setting, and the rules between them. Bind and Validate call it.
	Flags(fs *Set)
}

// Bind adds the flags of the options to fs. Their defaults are the current values.
func Bind(fs *pflag.FlagSet, options ...Options) {
	(&Set{bound: fs}).Add(options...)
}

// Validate returns an error for every setting that is out of its bounds, and for every rule that does not hold.
func Validate(options ...Options) error {
	var problems []error
	(&Set{problems: &problems}).Add(options...)
	return errors.Join(problems...)
}

// Set is the set of flags that options declare.
type Set struct {
	bound    *pflag.FlagSet // nil while values are checked
	problems *[]error       // nil while flags are bound
}

// When returns a set for options that the process uses only if used is true: otherwise they are bound but not checked.
func (s *Set) When(used bool) *Set {
	if used {
		return s
	}
	return &Set{bound: s.bound}
}

// Add declares the flags of parts.
func (s *Set) Add(parts ...Options) {
	for _, part := range parts {
		part.Flags(s)
	}
}

// Require adds the error to those of Validate unless ok is true.
func (s *Set) Require(ok bool, format string, args ...any) {
	if !ok && s.problems != nil {
		*s.problems = append(*s.problems, fmt.Errorf(format, args...))
	}
}

// Check adds the error of check to those of Validate. Only Validate calls check.
func (s *Set) Check(check func() error) {
	if s.problems == nil {
		return
	}
	if err := check(); err != nil {
		*s.problems = append(*s.problems, err)
	}
}

// Bool declares a flag that needs no value.
func (s *Set) Bool(value *bool, name, usage string) {
	if s.bound != nil {
		s.bound.BoolVar(value, name, *value, usage)
	}
}

// Strings declares a flag of values separated by commas, which may be repeated.
func (s *Set) Strings(value *[]string, name, usage string) {
	if s.bound != nil {
		s.bound.StringSliceVar(value, name, *value, usage)
	}
}

// Map declares a flag of key=value, which may be repeated.
func (s *Set) Map(value *map[string]string, name, usage string) {
	if s.bound != nil {
		s.bound.StringToStringVar(value, name, *value, usage)
	}
}

// Var declares a flag that parses its value itself.
func (s *Set) Var(value pflag.Value, name, usage string) {
	if s.bound != nil {
		s.bound.Var(value, name, usage)
	}
}

// Service declares a flag of namespace/name. An empty text is no Service.
func (s *Set) Service(value *types.NamespacedName, name, usage string) {
	s.Var((*service)(value), name, usage)
}

// String declares a flag of text.
func (s *Set) String(value *string, name, usage string) Setting[string] {
	return declare(s, (*pflag.FlagSet).StringVar, value, name, usage)
}

// Int declares a flag of a number.
func (s *Set) Int(value *int, name, usage string) Setting[int] {
	return declare(s, (*pflag.FlagSet).IntVar, value, name, usage)
}

// Int64 declares a flag of a number.
func (s *Set) Int64(value *int64, name, usage string) Setting[int64] {
	return declare(s, (*pflag.FlagSet).Int64Var, value, name, usage)
}

// Float64 declares a flag of a number with a fraction.
func (s *Set) Float64(value *float64, name, usage string) Setting[float64] {
	return declare(s, (*pflag.FlagSet).Float64Var, value, name, usage)
}

// Duration declares a flag of a duration, such as 1m30s.
func (s *Set) Duration(value *time.Duration, name, usage string) Setting[time.Duration] {
	return declare(s, (*pflag.FlagSet).DurationVar, value, name, usage)
}

// Size declares a flag of bytes as a quantity of Kubernetes, such as 500Mi.
func (s *Set) Size(value *int64, name, usage string) Setting[int64] {
	s.Var((*size)(value), name, usage)
	return Setting[int64]{set: s, name: name, value: *value}
}

func declare[T cmp.Ordered](
	s *Set, bind func(fs *pflag.FlagSet, value *T, name string, initial T, usage string), value *T, name, usage string,
) Setting[T] {
	if s.bound != nil {
		bind(s.bound, value, name, *value, usage)
	}
	return Setting[T]{set: s, name: name, value: *value}
}

// Setting is a declared flag, whose methods declare its bounds.
type Setting[T cmp.Ordered] struct {
	set   *Set
	name  string
	value T
}

// AtLeast declares the lowest value.
func (s Setting[T]) AtLeast(lowest T) {
	s.Must(s.value >= lowest, fmt.Sprintf("be at least %v", lowest))
}

// MoreThan declares the value below the lowest.
func (s Setting[T]) MoreThan(bound T) { s.Must(s.value > bound, fmt.Sprintf("be more than %v", bound)) }

// Between declares the lowest and the highest value.
func (s Setting[T]) Between(lowest, highest T) {
	s.Must(s.value >= lowest && s.value <= highest, fmt.Sprintf("be between %v and %v", lowest, highest))
}

// OneOf declares the possible values.
func (s Setting[T]) OneOf(values ...T) {
	texts := make([]string, len(values))
	for i, value := range values {
		texts[i] = fmt.Sprint(value)
	}
	s.Must(slices.Contains(values, s.value), "be "+strings.Join(texts, " or "))
}

// NotEmpty declares that there has to be a value.
func (s Setting[T]) NotEmpty() {
	var empty T
	s.set.Require(s.value != empty, "--%s must not be empty", s.name)
}

// Must declares that ok has to be true: that the flag must do what demand says, such as "be a URL".
func (s Setting[T]) Must(ok bool, demand string) {
	shown := any(s.value)
	if text, isText := shown.(string); isText {
		shown = fmt.Sprintf("%q", text)
	}
	s.set.Require(ok, "--%s must %s, is %v", s.name, demand, shown)
}

// service is namespace/name as a flag.
type service types.NamespacedName

// String implements pflag.Value.
func (s *service) String() string {
	if *s == (service{}) {
		return ""
	}
	return s.Namespace + "/" + s.Name
}

// Type implements pflag.Value.
func (*service) Type() string { return "namespace/name" }

// Set implements pflag.Value.
func (s *service) Set(text string) error {
	namespace, name, found := strings.Cut(text, "/")
	if text != "" && (!found || namespace == "" || name == "" || strings.Contains(name, "/")) {
		return fmt.Errorf("%q is not namespace/name", text)
	}
	*s = service{Namespace: namespace, Name: name}
	return nil
}

// size is bytes as a flag.
type size int64

// String implements pflag.Value.
func (s *size) String() string { return resource.NewQuantity(int64(*s), resource.BinarySI).String() }

// Type implements pflag.Value.
func (*size) Type() string { return "bytes" }

// Set implements pflag.Value.
func (s *size) Set(text string) error {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return fmt.Errorf("%q is not a size such as 500Mi", text)
	}
	*s = size(quantity.Value())
	return nil
}
