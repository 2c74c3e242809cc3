// What the runtime gives a handler. Written by `rouse init --typescript`; import types from it with
//   import type { Context, Event } from 'rouse'

declare module 'rouse' {
  /** Attributes of an event besides type, source and data, such as { traceparent: '...' }. */
  export type Attributes = Record<string, string | number | boolean>

  /** The first argument of main(event, context), in the runtimes nodejs20, nodejs22 and nodejs24. */
  export interface Event<T = any> {
    /** The data of the event, or the body of a request. */
    data: T | undefined
    'ce-type'?: string
    'ce-source'?: string
    'ce-id'?: string
    'ce-time'?: string
    'ce-specversion'?: string
    'ce-datacontenttype'?: string
    'ce-eventtypeversion'?: string
    extensions: { request: Request; response: Response }
    /** A tracer of OpenTelemetry. */
    readonly tracer: any
    setResponseHeader(name: string, value: string): void
    setResponseContentType(type: string): void
    setResponseStatus(status: number): void
    /** Publishes an event; resolves once it is stored. */
    emitCloudEvent(type: string, source: string, data: unknown, attributes?: Attributes): Promise<unknown>
    publishCloudEvent(event: { type: string; source: string; data: unknown; [attribute: string]: unknown }): Promise<unknown>
    buildResponseCloudEvent(id: string, type: string, data: unknown): Record<string, unknown>
  }

  /** The second argument of main(event, context). */
  export interface Context {
    'function-name': string
    namespace: string
    runtime: string
    /** Seconds that a call may take. */
    timeout: number
    /** Megabytes that a body may have. */
    'body-size-limit': number
  }

  /** What most handlers need of Express's request: the first argument of main(req, res), in nodejs26. */
  export interface Request<T = any> {
    method: string
    url: string
    path: string
    headers: Record<string, string | string[] | undefined>
    query: Record<string, any>
    body: T
    get(name: string): string | undefined
  }

  /** What most handlers need of Express's response. */
  export interface Response {
    status(code: number): this
    sendStatus(code: number): this
    set(name: string, value: string): this
    type(type: string): this
    send(body?: unknown): this
    json(body?: unknown): this
    end(chunk?: unknown): this
  }

  /** An event as the SDK reads it from a request. */
  export interface CloudEvent<T = any> {
    id: string
    type: string
    source: string
    specversion: string
    time?: string
    datacontenttype?: string
    data?: T
    [attribute: string]: unknown
  }
}

declare module 'sdk' {
  import type { Attributes, CloudEvent, Request } from 'rouse'

  export function getCloudEvent<T = any>(req: Request): CloudEvent<T> | null
  /** Publishes an event; resolves once it is stored. */
  export function emitCloudEvent(type: string, source: string, data: unknown, attributes?: Attributes): Promise<unknown>
  /** A tracer of OpenTelemetry. */
  export function getTracer(): any
  export function getFunctionName(): string
  export function getNamespace(): string
  export function getRuntime(): string
  export function getTimeout(): number
  export function getBodySizeLimit(): number
}
