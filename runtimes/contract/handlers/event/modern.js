import { getCloudEvent } from 'sdk';

export const main = (req, res) => {
  const event = getCloudEvent(req);
  if (!event) {
    res.status(404).send('no event');
    return;
  }
  const { id, type, source, eventtypeversion, data } = event;
  res.json({ id, type, source, version: eventtypeversion, data: data ?? null });
};
