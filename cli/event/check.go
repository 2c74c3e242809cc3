package event

import (
	"encoding/json"
	"errors"
	"strconv"
	"strings"

	sdk "github.com/cloudevents/sdk-go/v2/event"
	"github.com/cloudevents/sdk-go/v2/types"
)

// check finds what the SDK does not see, takes for something else, or reports without the name of the member.
func (m members) check() error {
	invalid := sdk.ValidationError{}
	for name, value := range m {
		var err error
		switch {
		case name == "data":
			err = m.checkData(value)
		case name == dataBase64 && m.isOld(): // for the SDK it is an extension
			err = errors.New("is no member of version 0.3; write specversion 1.0")
		case name == dataBase64, isAttribute(name):
			err = m.checkAttribute(name)
		case !isExtension(strings.ToLower(name)):
			err = errors.New("is not a name for an extension: letters and digits only")
		default:
			err = m.checkExtension(name, value)
		}
		if err != nil {
			invalid[name] = err
		}
	}
	if len(invalid) > 0 {
		return invalid
	}
	return nil
}

// checkData asks for a string where the SDK would take its ends off unseen.
func (m members) checkData(value json.RawMessage) error {
	if m[contentEncoding] != nil && m.isOld() && value[0] != '"' {
		return errors.New("MUST be a string with base64")
	}
	return nil
}

// checkAttribute leaves an attribute without escapes, which the SDK does not expect in base64.
func (m members) checkAttribute(name string) error {
	var text string
	if err := json.Unmarshal(m[name], &text); err != nil {
		return errors.New("MUST be a string")
	}
	m.set(name, text)
	switch name {
	case "source":
		if types.ParseURIRef(text) == nil {
			return errors.New("is no URI-reference")
		}
	case "dataschema":
		if types.ParseURI(text) == nil { // the SDK leaves it out
			return errors.New("is no URI")
		}
	case "time":
		if _, err := types.ParseTimestamp(text); err != nil {
			return errors.New("is no RFC 3339 timestamp")
		}
	}
	return nil
}

// checkExtension turns numbers into texts that are none of CloudEvents: the SDK would cut off what it cannot hold.
func (m members) checkExtension(name string, value json.RawMessage) error {
	switch value[0] {
	case '{', '[':
		return errors.New("MUST be a string, a number or a truth value")
	case 't', 'f':
		return nil
	case '"':
		m.set(name, m.text(name)) // in UTF-8, whatever it was
		return nil
	}
	if _, err := strconv.ParseInt(string(value), 10, 32); err != nil {
		m.set(name, string(value))
	}
	return nil
}

func isAttribute(name string) bool {
	switch name {
	case specVersion, "id", "source", "type", "subject", "time", contentType, "dataschema":
		return true
	}
	return false
}

// isExtension is true for the name of an extension in lower case.
func isExtension(name string) bool {
	return sdk.IsExtensionNameValid(name) && name == strings.ToLower(name) && !isAttribute(name) && name != "data"
}
