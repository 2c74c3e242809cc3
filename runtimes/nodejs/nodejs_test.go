package nodejs

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestNumbersOfASourceMapAreEncodedAsSpecified(t *testing.T) {
	t.Parallel()
	for number, want := range map[int]string{0: "A", 1: "C", 15: "e", 16: "gB", 1000: "w+B"} {
		require.Equal(t, want, variableLength(number), number)
	}
}

func TestMalformedPackageJSONIsReportedWithItsPosition(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ text, want string }{
		"nothing":                   {" \n", ""},
		"a package.json":            {`{"dependencies":{"a":"1"},"scripts":{"test":"x"},"private":true}`, ""},
		"a word":                    {"left-pad", "deps should start with '{' and end with '}'"},
		"malformed JSON in braces":  {"{epic}", "line 1, column 2: invalid character 'e'"},
		"a comma too many":          {"{\n  \"dependencies\": {\n    \"ä\": \"1\",\n  }\n}", "line 4, column 3: invalid character '}'"},
		"a number for a version":    {`{"dependencies":{"a":1}}`, "line 1, column 22: dependencies"},
		"a list for an object":      {`{"dependencies":["a"]}`, "dependencies cannot be a JSON array"},
		"two objects":               {`{"dependencies":{}} {}`, "line 1, column 21: invalid character '{' after top-level value"},
		"the remedy has an example": {`{"dependencies":{"a" "1"}}`, `It has to be a package.json, such as {"dependencies": {"lodash": "^4.17.21"}}`},
		"a premature end":           {`{"dependencies":{}`, "unexpected end"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := validate(tc.text)
			if tc.want == "" {
				require.Empty(t, got)
				return
			}
			require.Contains(t, got, tc.want)
		})
	}
}
