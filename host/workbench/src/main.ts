// Starts the page: in the browser's language, at the sign-in.

import './style.css'
import './builder/style.css'
import './keep.css'

import { Api } from './api'
import { preferred, setLanguage } from './i18n'
import { unfoldForPrint } from './rule/provenance'
import { Shell } from './shell'

// The page is at `/workbench` beside the API, and on the admin listener at `/admin/workbench` beside the admin API.
const isAdmin = location.pathname.endsWith('/admin/workbench')
const shell = new Shell(new Api(new URL(isAdmin ? 'v1/' : 'api/v2/', location.href)), isAdmin)
unfoldForPrint()
// If the strings cannot be loaded the page is in English.
void setLanguage(preferred()).then(
  () => shell.begin(),
  () => shell.begin(),
)
