package door

import (
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"strings"

	"github.com/rouse-run/rouse/api/rouse/v1alpha1"
)

// custom compiles what hmac describes.
func custom(secrets []secret, spec *v1alpha1.DoorHMAC) (func(*Request, *stamp) (Verified, error), error) {
	before, signsTime, signsID, err := payloadOf(spec)
	if err != nil {
		return nil, err
	}
	algorithm, decode := sha256.New, hex.DecodeString
	if spec.Algorithm == "SHA512" {
		algorithm = sha512.New
	}
	if spec.Encoding == "Base64" {
		decode = base64.StdEncoding.DecodeString
	}
	return func(r *Request, at *stamp) (Verified, error) {
		var v Verified
		sent := ""
		if spec.TimestampHeader != "" {
			if sent, err = single(r.Header, spec.TimestampHeader); err != nil {
				return Verified{}, err
			}
			signedAt, err := at.read(sent)
			if err != nil {
				return Verified{}, err
			}
			if signsTime {
				v.Time = signedAt
			}
		}
		if spec.IDHeader != "" {
			v.ID = idOf(r.Header, spec.IDHeader)
			if signsID && v.ID == "" {
				return Verified{}, ErrMalformed
			}
		}
		head := strings.NewReplacer(timeField, sent, idField, v.ID).Replace(before)
		v.Key, err = inHeader(r, spec.Header, spec.Prefix, decode, algorithm, secrets, []byte(head), r.Body)
		return v, err
	}, nil
}

// payloadOf returns what is signed before the body.
func payloadOf(spec *v1alpha1.DoorHMAC) (before string, signsTime, signsID bool, err error) {
	payload := spec.Payload
	if payload == "" {
		payload = bodyField
		if spec.TimestampHeader != "" {
			payload = timeField + "." + bodyField
		}
	}
	before, ok := strings.CutSuffix(payload, bodyField)
	signsTime, signsID = strings.Contains(before, timeField), strings.Contains(before, idField)
	switch {
	case !ok || strings.Contains(before, bodyField):
		err = fmt.Errorf("spec.webhook.hmac.payload: must end with %s and have it once", bodyField)
	case signsTime && spec.TimestampHeader == "":
		err = fmt.Errorf("spec.webhook.hmac.payload: %s needs timestampHeader", timeField)
	case spec.TimestampHeader != "" && !signsTime:
		err = fmt.Errorf("spec.webhook.hmac.payload: has no %s, so that whoever repeats a request could change its time; sign it or remove timestampHeader", timeField)
	case signsID && spec.IDHeader == "":
		err = fmt.Errorf("spec.webhook.hmac.payload: %s needs idHeader", idField)
	}
	return before, signsTime, signsID, err
}
